"""Files: write and read every byte, guess a file's kind, symbols as JSON."""
