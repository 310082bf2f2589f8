"""The papers' models as pure mathematics: values in, values out."""
