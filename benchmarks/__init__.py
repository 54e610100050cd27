"""Speed and memory, each printing a ratio against a peer measured in the same run."""
