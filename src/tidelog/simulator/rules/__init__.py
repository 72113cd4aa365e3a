"""The rules that every simulated run is judged by, each under the name it has in docs/rules.md.

`watch(world, workload)` puts them all in place. They keep a picture of their own of what the
cluster did (`ghost`), which no node and no client ever sees.
"""
