"""OPTIONS (name = value, …) and WITH (name = value, …): settings as text, checked by whoever they are for."""

from __future__ import annotations

from sqlglot import Token, TokenType

from watersmeet.errors import OptionError
from watersmeet.model.declaration import Setting
from watersmeet.sql.window_clause import WindowParser


class SettingsParser(WindowParser):
    def _settings_list(self) -> tuple[Setting, ...]:
        self._open("(")
        settings: list[Setting] = []
        while self._curr and self._curr.token_type != TokenType.R_PAREN:
            setting = self._setting()
            if any(setting.name.lower() == other.name.lower() for other in settings):
                self.fail(f"{setting.name} is set twice", setting.span, kind=OptionError)
            settings.append(setting)
            if not self._match(TokenType.COMMA):
                break
        self._close(")")
        return tuple(settings)

    def _setting(self) -> Setting:
        start = self._curr
        name = self._setting_name()
        if not self._match(TokenType.EQ):
            self.fail(f"expected = after {name}, found {self._found()}", hint=f"write {name} = 'value'")
        value = self._setting_value()
        return Setting(name, value, self._from(start))

    def _setting_name(self) -> str:
        """A word, dotted words (`kafka.topic`) or a string."""
        if self._match(TokenType.STRING):
            return self._prev.text
        parts = [self._setting_word()]
        while self._match(TokenType.DOT):
            parts.append(self._setting_word())
        return ".".join(parts)

    def _setting_word(self) -> str:
        if not self._curr or not (self._curr.text.isidentifier() or self._curr.token_type == TokenType.IDENTIFIER):
            self.fail(f"expected the name of an option, found {self._found()}")
        self._advance()
        return self._prev.text

    def _setting_value(self) -> str:
        """A string as it is; else the text up to the next comma or closing parenthesis."""
        if self._match(TokenType.STRING):
            return self._prev.text
        start, depth = self._curr, 0
        # Values such as order = (a, b) have commas of their own.
        while self._curr and (depth or self._curr.token_type not in (TokenType.COMMA, TokenType.R_PAREN)):
            depth += {TokenType.L_PAREN: 1, TokenType.R_PAREN: -1}.get(self._curr.token_type, 0)
            self._refuse_in_value(self._curr, depth)
            self._advance()
        if not start or start is self._curr:
            self.fail(f"expected a value, found {self._found()}")
        span = self._from(start)
        # From the text, not from the tokens: spaces and case stay as written.
        return self.sql[span[0] : span[1]]

    def _refuse_in_value(self, token: Token, depth: int) -> None:
        # A second = or a text without a comma before it is the next option.
        if token.token_type == TokenType.EQ or (token.token_type == TokenType.STRING and depth == 0):
            self.fail(f"did not expect {token.text!r} inside a value", hint="separate options with commas")
