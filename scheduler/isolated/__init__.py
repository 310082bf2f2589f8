"""A simulated JobTracker whose core and policy run in a confined process, beside a core here that checks them."""
