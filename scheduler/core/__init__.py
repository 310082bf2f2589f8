"""The scheduler as a pure state machine: `core.Core`, and its state in `ledger.Ledger`."""
