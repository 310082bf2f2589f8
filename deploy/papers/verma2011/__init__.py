"""ARIA (verma2011): its experiments in the order of the paper."""

from deploy.papers.verma2011 import fig3, fig4, fig5, fig7, table1, table2, table3, table4, waves

EXPERIMENTS = (
    waves.EXPERIMENT,
    table1.EXPERIMENT,
    fig3.EXPERIMENT,
    fig4.EXPERIMENT,
    fig5.EXPERIMENT,
    table2.EXPERIMENT,
    table3.EXPERIMENT,
    fig7.EXPERIMENT,
    table4.EXPERIMENT,
)
