"""The scheduler as a pure state machine: `core.Core` and the books it keeps."""
