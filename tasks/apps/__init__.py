"""The applications, one per module. A module declares `APP`, and no other list exists."""
