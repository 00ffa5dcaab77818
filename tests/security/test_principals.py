"""Principals of mutual TLS: subjects as Java prints them, and ssl.principal.mapping.rules."""

from __future__ import annotations

from base64 import b64decode
from pathlib import Path

import pytest

from equipoise.security.tls.principals import NoMatchingRule, PrincipalMapper, subject_of
from equipoise.wire.errors import UsageError

ORACLE = [
    tuple(map(b64decode, line.split("\t")))
    for line in (Path(__file__).parent / "java_subjects.tsv").read_text(encoding="ascii").splitlines()
]  # certificates, and what JavaSubjects.java printed for each


@pytest.mark.parametrize(("certificate", "subject"), ORACLE, ids=[subject.decode() for _, subject in ORACLE])
def test_a_subject_is_written_as_java_writes_it(certificate: bytes, subject: bytes) -> None:
    assert subject_of(certificate) == subject.decode()


def test_a_principal_is_a_user() -> None:
    assert PrincipalMapper().principal_of(ORACLE[1][0]) == "User:CN=app.example.com,OU=Billing,O=Example\\, Inc.,C=DE"


RULES = r"""RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/L,
    RULE:^CN=(.*?),OU=(.*?),O=(.*?),L=(.*?),ST=(.*?),C=(.*?)$/$1@$2/L,
    RULE:^cn=(.*?),ou=(.*?),dc=(.*?),dc=(.*?)$/$1@$2/U,
    RULE:^.*[Cc][Nn]=([a-zA-Z0-9.]*).*$/$1/U,
    DEFAULT"""


@pytest.mark.parametrize(
    ("rules", "name", "mapped"),
    [
        (RULES, "CN=Duke,OU=ServiceUsers,O=Org,C=US", "duke"),
        (RULES, "CN=Duke,OU=SME,O=mycp,L=Fulton,ST=MD,C=US", "duke@sme"),
        (RULES, "cn=duke,ou=sme,dc=mycp,dc=com", "DUKE@SME"),
        (RULES, "cN=duke,OU=JavaSoft,O=Sun Microsystems", "DUKE"),
        (RULES, "OU=JavaSoft,O=Sun Microsystems,C=US", "OU=JavaSoft,O=Sun Microsystems,C=US"),
        ("", "CN=a", None),
        ("DEFAULT", "CN=a", "CN=a"),
        ("RULE:CN=(.*?),.*/$1/", "CN=a,O=b", "a"),
        ("RULE:^CN=([^,ADEFLTU,]+)(,.*|$)/$1/", "CN=aaaaaaaaaa,OU=ServiceUsers", "aaaaaaaaaa"),
        (r"RULE:^CN=([^,DEFAULT,]+)(,.*|$)/$1/", "CN=other,O=x", "other"),
        (r"RULE:^\/CN=(.*)$/\/$1/", "/CN=a", "/a"),
        ("RULE:^CN=(.)(.)(.)$/$3$2$1$4@$12/", "CN=abc", "cba$4@a2"),
        ("RULE:^CN=(?<user>.*)$/$1/U", "CN=abc", "ABC"),
        ("RULE:^CN=(.*)$/$1/,RULE:.*/nobody/", "O=x", "nobodynobody"),  # as replaceAll: the empty end matches again
    ],
)
def test_the_first_rule_that_applies_maps_a_name(rules: str, name: str, mapped: str | None) -> None:
    mapper = PrincipalMapper(rules)
    if mapped is None:
        with pytest.raises(NoMatchingRule):
            mapper.map(name)
    else:
        assert mapper.map(name) == mapped


def test_without_a_rule_that_applies_there_is_no_principal() -> None:
    with pytest.raises(NoMatchingRule, match="CN=other"):
        PrincipalMapper("RULE:^CN=one$/one/").map("CN=other")


@pytest.mark.parametrize(
    "rules",
    [
        "default",
        "DEFAUL",
        "DEFAULT/L",
        "DEFAULT/U",
        "RULE:CN=(.*?),OU=ServiceUsers.*/$1",
        "rule:^CN=(.*?),OU=ServiceUsers.*$/$1/L",
        "RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/L/U",
        "RULE:^CN=(.*?),OU=ServiceUsers.*$/L",
        "RULE:^CN=(.*?),OU=ServiceUsers.*$/U",
        "RULE:^CN=(.*?),OU=ServiceUsers.*$/LU",
        "RULE:(/x/",
        r"RULE:\p{Alpha}/x/",
        "RULE:[a-z&&[^b]]/x/",
    ],
)
def test_what_is_no_rule_is_refused_at_the_start(rules: str) -> None:
    with pytest.raises(UsageError, match=r"ssl\.principal\.mapping\.rules"):
        PrincipalMapper(rules)
