"""The command `schedbed doctor`: the limits that this host can enforce, and whether they hold when
measured.
"""
