"""Jobs and what they execute: ids, specifications, applications, workloads and trace readers."""
