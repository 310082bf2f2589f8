"""RAS (polo2011): its experiments in the order of the paper."""

from deploy.papers.polo2011 import fig2, fig3, fig4, fig5, fig6, seeks, table1

EXPERIMENTS = (
    fig2.EXPERIMENT,
    table1.EXPERIMENT,
    fig3.EXPERIMENT,
    seeks.EXPERIMENT,
    fig4.EXPERIMENT,
    fig5.EXPERIMENT,
    fig6.EXPERIMENT,
)
