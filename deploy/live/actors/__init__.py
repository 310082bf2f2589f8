"""What Ray makes actors of: JobTracker, NameNode and TaskTrackers, each with its service of the current run.

Actors outlive single runs. What run goes on the masters find in a control folder of the driver's host, also when
Ray has restarted them; a TaskTracker, which may be on another host, is told it when it is begun. Each has a module of
its own: all start at once, and a cluster is up as soon as each has imported what it needs.
"""
