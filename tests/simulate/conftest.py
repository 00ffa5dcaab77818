"""What tests of `equipoise simulate` use."""

from __future__ import annotations

from tests.console.conftest import command as command
