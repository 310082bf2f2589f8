"""The shipped applications, one per module, which declares it as `APP`. A new module is found by itself."""
