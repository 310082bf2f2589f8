"""The applications, a module each. It declares `APP`, and nothing else lists it."""
