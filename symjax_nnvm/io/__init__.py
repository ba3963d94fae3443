"""Files: how every byte is written and read, what kind of file one is, symbols as JSON."""
