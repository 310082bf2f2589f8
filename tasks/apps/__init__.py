"""The applications, one per module. Each module declares its application as `APP`; there is no list to
maintain."""
