"""Text to bound plan: a dialect, a parser, and a binder that checks names, types and windows."""

from watersmeet.sql.bind import bind, bind_query, bind_view
from watersmeet.sql.parse import parse_query, parse_question, parse_script

__all__ = ["bind", "bind_query", "bind_view", "parse_query", "parse_question", "parse_script"]
