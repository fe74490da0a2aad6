"""What the pages of the book and its courses need, beside the tools of taken_apart."""
