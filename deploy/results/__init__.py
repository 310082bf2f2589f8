"""What is made of a run's tables: metrics, statistics, tables, the report and the timeline."""
