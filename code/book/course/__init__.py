"""What an instructor needs."""
