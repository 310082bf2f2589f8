"""The shipped applications. Each module declares one as `APP`, so a new module needs no registration."""
