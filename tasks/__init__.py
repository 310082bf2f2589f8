"""Jobs and the code that their tasks execute: ids, specifications, applications, workloads and trace readers."""
