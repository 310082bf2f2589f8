"""Results computed from a run's tables: metrics, statistics, comparison tables, the report and the timeline."""
