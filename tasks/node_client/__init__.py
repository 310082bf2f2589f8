"""The client through which an attempt uses its node: files of the block store, map outputs, and the disk
and network budgets.
"""
