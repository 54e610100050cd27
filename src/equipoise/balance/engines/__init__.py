"""Ways to find the nearest scores. All give the same answer; they differ in what they cost."""
