"""The scheduler as a pure state machine: `core.Core` and its books."""
