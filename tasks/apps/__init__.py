"""The shipped applications, one per module. Each module declares its application as the variable `APP`.

A new module is found without registration.
"""
