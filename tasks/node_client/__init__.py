"""What an attempt asks of its node: files, map outputs, the disk budget."""
