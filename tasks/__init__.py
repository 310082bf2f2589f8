"""What is run: ids, job and task specifications, applications, workloads and trace readers."""
