"""Leaves that are moved: the page says where the program would no longer be the one that was recorded."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from browserchecks import opened


def move(page: Page, leaf: str, to: float) -> None:
    page.locator(".wg-hidden ul[aria-label=Nodes] button", has_text=f"input {leaf},").evaluate("node => node.click()")
    field = page.get_by_label(f"Value of {leaf}")
    field.fill(str(to))


@pytest.mark.parametrize(
    ("leaf", "same", "other", "says"),
    [("b", 0.5, -1.0, "decides otherwise"), ("a", -2.0, 3.0, "takes a number out of the graph")],
)
def test_a_moved_leaf_that_changes_what_the_program_took_out(
    browser: Browser, page_file: Callable[[str], Path], leaf: str, same: float, other: float, says: str
) -> None:
    with opened(browser, page_file("decisions")) as (page, heard):
        note = page.get_by_role("status").filter(has_text="program")
        move(page, leaf, same)
        expect(note).to_have_count(0)
        move(page, leaf, other)
        expect(note).to_contain_text(says)
        expect(note).to_contain_text(re.compile(r"explorer_samples\.py:\d+"))
        expect(page.locator(".wg-graph.is-stale")).to_have_count(1)
        page.keyboard.press("Escape")
        move(page, leaf, same)
        expect(note).to_have_count(0)
        expect(page.locator(".wg-graph.is-stale")).to_have_count(0)
        assert heard.complaints == []


def test_a_moved_leaf_goes_through_an_op_that_is_declared_by_a_formula(
    browser: Browser, page_file: Callable[[str], Path]
) -> None:
    with opened(browser, page_file("declared")) as (page, heard):
        move(page, "a", 1.5)
        nodes = page.locator(".wg-hidden ul[aria-label=Nodes]")
        # 2 log(cosh(3 a)), and 6 tanh(3 a)
        expect(nodes).to_contain_text("root result, value 7.614")
        expect(nodes).to_contain_text("input a, value 1.5, gradient 5.999")
        assert heard.complaints == []
