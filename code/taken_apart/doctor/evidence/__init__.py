"""What the probes look at: each file measures one thing about a module that ran."""
