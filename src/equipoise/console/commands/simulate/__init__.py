"""`equipoise simulate`: groups under virtual time, without a broker."""

from equipoise.console.commands.simulate.check import check
from equipoise.console.commands.simulate.plan import plan
from equipoise.console.commands.simulate.play import play

COMMANDS = (check, plan, play)
