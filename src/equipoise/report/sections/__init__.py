"""The page's sections, a file each."""
