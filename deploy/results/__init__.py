"""Results computed from a run's tables: metrics, statistics, tables, the report and the timeline."""
