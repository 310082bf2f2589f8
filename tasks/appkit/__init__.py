"""The interface of applications and the code that several applications share. The applications are in tasks/apps."""
