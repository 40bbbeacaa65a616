"""Attempts to get out of the expression language, one text each (bad-inputs 36)."""
# ruff: noqa: RUF001  (letters that look like others are the attack)
# fmt: off

ESCAPES = [
    "__import__('os')", "a.__class__", "a.__class__.__mro__[1].__subclasses__()", "__builtins__",
    "a.__dict__", "().__class__", "[].__class__", "''.__class__", "'{0.__class__}'.format(a)",
    "'%s' % a.__class__", "a.＿＿class＿＿", "a.__ｃlass__", "__ｉmport__('os')", "ｇｅｔａｔｔｒ(a, 'b')",
    "a.__𝒸𝓁𝒶𝓈𝓈__", "𝓮𝓿𝓪𝓵('1')", "getattr(a, 'b')", "setattr(a, 'b', 1)", "eval('1')", "exec('1')",
    "compile('1', '', 'eval')", "open('x')", "globals()", "locals()", "vars()", "dir()", "type(a)",
    "print(1)", "input()", "breakpoint()", "exit()", "lambda: 1", "(lambda x: x)(1)", "(lambda: (yield))()",
    "[x for x in y]", "{x for x in y}", "{x: 1 for x in y}", "(x for x in y)", "any(x for x in y)", "[*a]",
    "len(*a)", "len(**a)", "f(*a)", "*a", "**a", "9**9**9", "2**64", "10**10**10", "'a'*10**9", "'a'*1000",
    "[0]*10", "1 << 99", "1 >> 1", "1 | 2", "1 & 2", "1 ^ 2", "~1", "a @ b", "+1", "-'a'", "a := 1",
    "(a := 1)", "await a", "yield", "yield from a", "async", "f'{a}'", 'f"{a.__class__}"', "F'x'", "b'abc'",
    "B'x'", "rb'x'", "u'x'", "r'x'", "t'{a}'", "1_0j", "1j", "1_000", "0x10", "0o7", "0b1", "01", "1e",
    "1.e5.5", "1if a else 2", "1or 2", "1.5.real", "'-'*100000", "-" * 900, "not " * 240 + "a",
    "(" * 100 + "a" + ")" * 100, "[" * 100 + "]" * 100, "a" + "[0]" * 300, "a" + ".b" * 300,
    "len(" * 30 + "a" + ")" * 30, "a+" * 400 + "a", "9" * 999, "1e999", "'" + "x" * 2000 + "'", "a" * 1001,
    "a<" * 230 + "a", "-9223372036854775809", "9223372036854775808", "a;b", "a\nb", "a b", "a,b", "a,",
    "(a,)", "()", "[a,]", "[a, ]", "len(a,)", "a # comment", "#", "a \\\n + b", "import os", "del a",
    "a = 1", "a += 1", "a == 1 = 2", "if a: b", "while 1: 2", "return 1", "pass", "assert a", "a is None",
    "a is not b", "None is None", "a <> b", "a === b", "a && b", "a || b", "!a", "a ? b : c", "${a}",
    "${a} && ${b}", "ref == ${x}", "{a}", "{'a': 1}", "{}", "{1, 2}", "a[1:2]", "a[::]", "a[1, 2]", "a[:]",
    "...", "Ellipsis()", "a...", "@a", "`a`", "a$", "a?", "a'", '"a', "'''a'''", '"""a"""', "'a' 'b'",
    "'a''b'", "len", "len.x", "exists", "exists(1)", "exists(len(a))", "exists()", "exists(a, b)",
    "default(a)", "default(1, 2)", "foo(1)", "a.b(1)", "a[0](1)", "len(a)(b)", "len(x=1)", "'a'.upper()",
    "[1][0]", "(a)(b)", "true.x", "true()", "'\\d'", "'\\x41'", "'\\N{BULLET}'", "'a\nb'", "a\x00b",
    "'\x00'", "a\u2028b", "a\xa0b", "\ufeffa", "'\ud800'", "“a”", "a ＝＝ b", "a（b）", "α.__β__", "1١", "٣",
    "²", "", "   ", "\n", "and", "not", "a and", "== a", "a ==", "a.", ".a", "a..b", "a[", "a]", "(a", "a)",
    "[a", "a.1", "a.'b'", "True = 1", "None.x", "not 'a'", "1 and 2", "'a' or true", "match a",
]
