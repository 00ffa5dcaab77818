"""Actions: what is wanted, the dry run of it with a name to type, and what came of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import htpy as h

from equipoise.console import words
from equipoise.console.web.pages.layout import Node, first_rows, head, name, number
from equipoise.console.web.plans import DELETE, DELETE_OFFSETS, REMOVE, RESET, Outcome, Plan
from equipoise.console.web.timeline import group_address
from equipoise.views.model import GroupView

TITLES = {
    RESET: "Reset offsets",
    DELETE: "Delete the group",
    DELETE_OFFSETS: "Delete offsets of a topic",
    REMOVE: "Remove a member",
}
_LISTED = 500
_TARGETS = ("earliest", "latest", "-1000", "30m", "group:")
Cells = tuple[str | int | None, ...]


class Form(NamedTuple):
    """What a form brings back, unseen."""

    ticket: str
    token: str


def links(view: GroupView) -> Node:
    """On the page of a group: where each action begins."""
    place = group_address(view.group_id)
    return h.section(".card.wide.actions", aria_label="actions")[
        h.h2["Actions"],
        h.ul[[h.li[h.a(href=f"{place}/{action}")[title]] for action, title in TITLES.items()]],
        h.p(".quiet")["Each shows first what it would change, and asks."],
    ]


# -- what is wanted


def question(action: str, view: GroupView) -> Node:
    """A form that changes nothing: its answer is the dry run."""
    return [
        _title(TITLES[action], view.group_id),
        h.form(".card.ask", method="get", action=f"{group_address(view.group_id)}/{action}")[
            _FIELDS[action](view), h.p[h.button(type="submit")["Show what would change"]]
        ],
    ]


def _reset_fields(view: GroupView) -> Node:
    topics = _topics(view)
    return [
        h.label["topic ", h.input(name="topic", list="topics", autocomplete="off")],
        h.datalist(id="topics")[[h.option(value=one) for one in topics]],
        h.p(".quiet")["TOPIC, or TOPIC:0-5,7 for some partitions; empty for all that the group has committed."],
        h.label["to ", h.input(name="to", list="targets", required=True, autocomplete="off")],
        h.datalist(id="targets")[[h.option(value=one) for one in _TARGETS]],
        h.p(".quiet")[
            "earliest, latest, an offset, +N or -N from the commit, a time (30m, 2026-01-31T08:00) or group:OTHER."
        ],
    ]


def _delete_offsets_fields(view: GroupView) -> Node:
    found = _topics(view)
    if not found:
        return h.p["The group has committed nothing."]
    return h.label["topic ", h.select(name="topic")[[h.option(value=one)[name(one)] for one in found]]]


def _remove_fields(view: GroupView) -> Node:
    if not view.members:
        return h.p["The group has no members."]
    options = [h.option(value=one.member_id)[words.full_name(one.who)] for one in view.members]
    return [
        h.label["member ", h.select(name="member")[options]],
        h.label["reason ", h.input(name="reason", maxlength="200", autocomplete="off")],
        h.p(".quiet")["The reason stands in the group's log and journal."],
    ]


_FIELDS = {RESET: _reset_fields, DELETE_OFFSETS: _delete_offsets_fields, REMOVE: _remove_fields}


def _topics(view: GroupView) -> list[str]:
    return sorted({one.topic for one in view.partitions if one.committed is not None})


# -- the dry run


def confirmation(action: str, plan: Plan, form: Form, wrong_name: str | None = None) -> Node:
    """What would change; and, if the cluster would do it, a name to type."""
    return [
        _title(TITLES[action], plan.group_id),
        plan.refusal is not None and h.p(".notice")[name(plan.refusal), "."],
        plan.refusal is None and _agree(action, plan, form, wrong_name),
        [h.p[note] for note in plan.notes],
        _changes(plan),
    ]


def _agree(action: str, plan: Plan, form: Form, wrong_name: str | None) -> Node:
    wrong = wrong_name is not None
    return h.form(".card.ask.action", method="post", action=f"{group_address(plan.group_id)}/{action}")[
        h.p[h.strong[f"{plan.what}?"]],
        wrong and h.p(".notice", role="alert")[f"{name(wrong_name or '') or 'Nothing'} is not the name of the group."],
        h.label[
            f"To agree, type {name(plan.group_id)} ",
            h.input(name="name", required=True, autocomplete="off", autocapitalize="off", spellcheck="false"),
        ],
        h.input(type="hidden", name="ticket", value=form.ticket),
        h.input(type="hidden", name="token", value=form.token),
        h.p[
            h.button(".danger", type="submit")[TITLES[action]],
            " ",
            h.a(href=group_address(plan.group_id))["leave it as it is"],
        ],
    ]


def _changes(plan: Plan) -> Node:
    heads = [head(one, is_number=one != "topic") for one in plan.heads]
    rows = (h.tr[[_cell(one) for one in row]] for row in plan.rows)
    return first_rows("What would change", heads, rows, len(plan.rows), listed=_LISTED)


def _cell(value: str | int | None) -> Node:
    return h.td(".name")[name(value)] if isinstance(value, str) else number(value)


# -- what came of it


def result(plan: Plan, outcomes: Sequence[Outcome]) -> Node:
    """Each thing that was tried, with the cluster's answer."""
    failed = [one for one in outcomes if one.error is not None]
    done = [one for one in outcomes if one.error is None]
    return [
        _title("Done" if not failed else "Done in part" if done else "Not done", plan.group_id),
        failed and h.ul(".notice")[[h.li[name(one.error or "")] for one in failed[:_LISTED]]],
        h.ul[[h.li[one.what] for one in done[:_LISTED]]],
        h.p[h.a(href=group_address(plan.group_id))["back to the group"]],
    ]


def failed(group_id: str, text: str) -> Node:
    """Why nothing was changed."""
    return [
        _title("Not done", group_id),
        h.p(".notice", role="alert")[text],
        h.p[h.a(href=group_address(group_id))["back to the group"]],
    ]


def _title(text: str, group_id: str) -> Node:
    return h.div(".title")[h.h1[f"{text}: ", h.a(href=group_address(group_id))[name(group_id)]]]
