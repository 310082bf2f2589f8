"""The interface of applications and the code they share. The applications are in tasks/apps."""
