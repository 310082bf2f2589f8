"""The papers' models as pure mathematics."""
