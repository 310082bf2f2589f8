"""Models of rigid jobs, whose maps all start together: the slots that they hold, and what is promised to others."""
