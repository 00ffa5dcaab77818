"""Access rules: the cases of Kafka's StandardAuthorizerTest, filters, hosts, and what is refused as an ACL."""

from __future__ import annotations

import pytest

from equipoise.security.acls import (
    Acl,
    AclFilter,
    AclOperation,
    AclPermissionType,
    PatternType,
    ResourcePattern,
    ResourceType,
    StandardAuthorizer,
    check_new,
    host_address,
    parse_super_users,
)
from equipoise.wire.errors import KafkaError, UsageError
from tests.security.acl_sets import ALLOW, DENY, GROUP, HERE, LITERAL, PREFIXED, TOPIC, acl, authorizer_of

Op = AclOperation


def decisions(authorizer: StandardAuthorizer, user: str, *asked: tuple[Op, ResourceType, str], host: str = HERE) -> str:
    """One letter for each question: a allowed, d denied."""
    found = [authorizer.authorize(f"User:{user}", host, *question).is_allowed for question in asked]
    return "".join("a" if one else "d" for one in found)


# -- StandardAuthorizerTest


@pytest.mark.parametrize(
    ("text", "users"),
    [
        ("", set()),
        (" ", set()),
        ("User:bob;User:alice ", {"User:bob", "User:alice"}),
        (";  User:bob  ;  User:alice ", {"User:bob", "User:alice"}),
        ("User:CN=x,O=y;User:z", {"User:CN=x,O=y", "User:z"}),
    ],
)
def test_super_users_are_separated_by_semicolons(text: str, users: set[str]) -> None:
    assert parse_super_users(text) == users


def test_a_super_user_without_a_type_is_refused() -> None:
    with pytest.raises(UsageError, match=r"super\.users.*bob"):
        parse_super_users("bob;User:alice")


@pytest.mark.parametrize("everyone", [False, True])
def test_everyone_is_allowed_only_where_no_acl_names_the_resource(everyone: bool) -> None:
    authorizer = authorizer_of(acl("topic1", Op.READ, principal="User:Alice"), everyone=everyone)
    assert decisions(authorizer, "Bob", (Op.READ, TOPIC, "topic1")) == "d"
    assert decisions(authorizer, "Bob", (Op.READ, TOPIC, "topic2")) == ("a" if everyone else "d")


@pytest.mark.parametrize("given", list(Op))
@pytest.mark.parametrize("permission", [ALLOW, DENY])
def test_implied_operations(given: Op, permission: AclPermissionType) -> None:
    rule = acl("foo_", given, permission, PREFIXED)
    implied = {
        Op.DESCRIBE: {Op.DESCRIBE, Op.READ, Op.WRITE, Op.DELETE, Op.ALTER},
        Op.DESCRIBE_CONFIGS: {Op.DESCRIBE_CONFIGS, Op.ALTER_CONFIGS},
    }
    for asked in (Op.DESCRIBE, Op.DESCRIBE_CONFIGS, Op.READ, Op.ALTER_CONFIGS, Op.CREATE):
        exact = given in (Op.ALL, asked)
        assert rule.covers(asked) is (exact or (permission is ALLOW and given in implied.get(asked, set())))


def test_principals_are_compared_as_text_and_the_star_is_everyone() -> None:
    authorizer = authorizer_of(
        acl("foo_", Op.READ, pattern=PREFIXED), acl("bar", Op.READ, DENY, kind=GROUP, principal="User:*")
    )
    assert decisions(authorizer, "bob", (Op.READ, TOPIC, "foo_bar")) == "a"
    assert decisions(authorizer, "alice", (Op.READ, TOPIC, "foo_bar"), (Op.READ, GROUP, "bar")) == "dd"
    assert decisions(authorizer, "Bob", (Op.READ, TOPIC, "foo_bar")) == "d"


def test_a_group_principal_matches_no_user() -> None:
    authorizer = authorizer_of(acl("t", Op.READ, principal="Group:bob"))
    assert decisions(authorizer, "bob", (Op.READ, TOPIC, "t")) == "d"


def test_the_acls_are_listed_until_they_are_removed() -> None:
    foo = [acl("foo_", op, pattern=PREFIXED) for op in (Op.READ, Op.WRITE)]
    bar = [acl("bar", op, DENY, kind=GROUP) for op in (Op.DESCRIBE_CONFIGS, Op.ALTER_CONFIGS)]
    authorizer = authorizer_of(*foo, *bar)
    assert authorizer.matching(AclFilter()) == foo + bar
    authorizer.remove(foo[1])
    authorizer.remove(foo[1])
    assert authorizer.matching(AclFilter()) == [foo[0], *bar]
    assert authorizer.matching(AclFilter(resource_type=TOPIC)) == [foo[0]]
    assert foo[1] not in authorizer
    assert len(authorizer) == 3


def test_a_prefix_that_is_the_name_itself_matches() -> None:
    authorizer = authorizer_of(
        acl("foo_", Op.READ, pattern=PREFIXED), acl("bar", Op.ALTER_CONFIGS, kind=GROUP, principal="User:*")
    )
    assert decisions(authorizer, "bob", (Op.READ, TOPIC, "foo_"), (Op.READ, TOPIC, "foo")) == "ad"
    assert decisions(authorizer, "fred", (Op.ALTER_CONFIGS, GROUP, "bar")) == "a"


def test_a_deny_of_all_operations_goes_before_each_allow() -> None:
    authorizer = authorizer_of(
        acl("foo", Op.ALL, DENY, principal="User:alice"),
        acl("foo", Op.READ, pattern=PREFIXED, principal="User:alice"),
        acl("foo", Op.ALL, DENY, principal="User:*"),
        acl("foo", Op.DESCRIBE, pattern=PREFIXED, principal="User:*"),
    )
    asked = [(op, TOPIC, "foo") for op in (Op.WRITE, Op.READ, Op.DESCRIBE)]
    assert decisions(authorizer, "alice", *asked, (Op.READ, TOPIC, "foobar")) == "ddda"
    assert decisions(authorizer, "bob", *asked, (Op.DESCRIBE, TOPIC, "foobaz"), (Op.READ, TOPIC, "foobaz")) == "dddad"


def test_an_allow_of_all_operations_allows_each() -> None:
    authorizer = authorizer_of(
        acl("foo", Op.ALL, principal="User:*"),
        acl("bar", Op.ALL, pattern=PREFIXED, principal="User:alice"),
        acl("baz", Op.ALL, principal="User:bob"),
    )
    asked = [(Op.WRITE, TOPIC, "foo"), (Op.DESCRIBE_CONFIGS, TOPIC, "bar"), (Op.DESCRIBE, TOPIC, "baz")]
    assert [decisions(authorizer, user, *asked) for user in ("alice", "bob", "malory")] == ["aad", "ada", "add"]


def test_hosts_are_compared_as_text() -> None:
    one, two = "192.168.1.1", "192.168.1.2"
    authorizer = authorizer_of(
        acl("foo", Op.READ, DENY, principal="User:alice", host=one),
        acl("foo", Op.READ, principal="User:alice"),
        acl("bar", Op.READ, principal="User:bob", host=two),
        acl("bar", Op.DESCRIBE, principal="User:*", host=HERE),
    )
    asked = [(Op.READ, TOPIC, "foo"), (Op.READ, TOPIC, "bar"), (Op.DESCRIBE, TOPIC, "bar")]
    hosts = HERE, one, two
    assert [decisions(authorizer, "alice", *asked, host=host) for host in hosts] == ["ada", "ddd", "add"]
    assert [decisions(authorizer, "bob", *asked, host=host) for host in hosts] == ["dda", "ddd", "daa"]


def test_many_acls() -> None:
    authorizer = authorizer_of(
        acl("green2", Op.READ, principal="User:*"),
        acl("green", Op.READ, pattern=PREFIXED),
        acl("betamax4", Op.READ),
        acl("betamax", Op.READ),
        acl("beta", Op.READ, pattern=PREFIXED, principal="User:*"),
        acl("alpha", Op.READ, pattern=PREFIXED, principal="User:*"),
        acl("alp", Op.READ, DENY, PREFIXED),
        acl("*", Op.WRITE, kind=GROUP),
        acl("wheel", Op.WRITE, DENY, kind=GROUP, principal="User:*"),
    )
    assert decisions(authorizer, "bob", (Op.READ, TOPIC, "green1"), (Op.WRITE, GROUP, "wheel")) == "ad"
    asked = (Op.READ, TOPIC, "alpha"), (Op.WRITE, GROUP, "arbitrary"), (Op.READ, TOPIC, "ala")
    assert decisions(authorizer, "bob", *asked) == "dad"


def test_a_super_user_is_allowed_whatever_is_denied() -> None:
    authorizer = authorizer_of(acl("*", Op.ALL, DENY, principal="User:*"))
    assert decisions(authorizer, "superman", (Op.WRITE, TOPIC, "t"), (Op.ALTER, ResourceType.CLUSTER, "x")) == "aa"


# -- decisions are kept, and the rule is told


def test_a_change_of_the_acls_ends_what_was_decided() -> None:
    authorizer = authorizer_of()
    rule = acl("t", Op.READ)
    for expected, change in (("d", authorizer.add), ("a", authorizer.remove), ("d", authorizer.add)):
        assert decisions(authorizer, "bob", (Op.READ, TOPIC, "t")) == expected
        change(rule)


def test_the_rule_of_a_decision() -> None:
    rule = acl("t", Op.READ)
    authorizer = authorizer_of(rule)
    assert authorizer.authorize("User:bob", HERE, Op.READ, TOPIC, "t").rule == rule
    assert authorizer.authorize("User:bob", HERE, Op.WRITE, TOPIC, "t").rule == "DefaultDeny"
    assert authorizer.authorize("User:superman", HERE, Op.WRITE, TOPIC, "t").rule == "SuperUser"
    assert str(rule) == "ALLOW READ to User:bob from * on TOPIC:LITERAL:t"


def test_decisions_are_kept_in_bounded_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """By what the names take, not by how many there are: a name may have 32 KB."""
    monkeypatch.setattr("equipoise.security.acls.MOST_DECIDED", 100_000)
    authorizer = authorizer_of(acl("t", Op.READ, pattern=PREFIXED))
    asked = [(Op.READ, TOPIC, f"t{n}") for n in range(1000)]
    assert decisions(authorizer, "bob", *asked) == "a" * 1000
    assert 0 < len(authorizer._decisions) < 500
    assert decisions(authorizer, "bob", *((Op.READ, TOPIC, f"t{n}" * 5_000) for n in range(100))) == "a" * 100
    assert len(authorizer._decisions) < 12


# -- some resource of a type


@pytest.mark.parametrize(
    ("acls", "expected"),
    [
        ([], False),
        ([acl("t", Op.WRITE)], True),
        ([acl("t", Op.READ)], False),
        ([acl("t", Op.ALL)], True),
        ([acl("t", Op.WRITE), acl("t", Op.WRITE, DENY)], False),
        ([acl("t", Op.WRITE), acl("t", Op.ALL, DENY)], False),
        ([acl("t", Op.WRITE), acl("t", Op.WRITE, DENY, PREFIXED)], False),
        ([acl("tt", Op.WRITE), acl("t", Op.WRITE, DENY, PREFIXED)], False),
        ([acl("t", Op.WRITE), acl("tt", Op.WRITE, DENY, PREFIXED)], True),
        ([acl("t", Op.WRITE, pattern=PREFIXED), acl("t", Op.WRITE, DENY)], True),
        ([acl("t", Op.WRITE, pattern=PREFIXED), acl("t", Op.WRITE, DENY, PREFIXED)], False),
        ([acl("t", Op.WRITE), acl("*", Op.WRITE, DENY)], False),
        ([acl("*", Op.WRITE)], True),
        ([acl("*", Op.WRITE), acl("hard", Op.WRITE, DENY, PREFIXED)], True),
        ([acl("*x", Op.WRITE), acl("*", Op.WRITE, DENY, PREFIXED)], False),
        ([acl("t", Op.WRITE, host="10.1.1.1")], False),
        ([acl("t", Op.WRITE, principal="User:*")], True),
        ([acl("t", Op.WRITE, kind=GROUP)], False),
    ],
)
def test_some_resource_of_a_type(acls: list[Acl], expected: bool) -> None:
    authorizer = authorizer_of(*acls)
    assert authorizer.authorize_by_resource_type("User:bob", HERE, Op.WRITE, TOPIC) is expected
    assert authorizer.authorize_by_resource_type("User:superman", HERE, Op.WRITE, TOPIC)


# -- patterns


@pytest.mark.parametrize(
    ("pattern", "names", "expected"),
    [
        (("a", PREFIXED), ("a", "ab", "b", "A"), "aadd"),
        (("*", LITERAL), ("*", "x", "__consumer_offsets"), "aaa"),
        (("*", PREFIXED), ("*", "*x", "x"), "aad"),
        (("a", LITERAL), ("a", "ab", "a "), "add"),
    ],
)
def test_names_and_patterns(pattern: tuple[str, PatternType], names: tuple[str, ...], expected: str) -> None:
    authorizer = authorizer_of(acl(pattern[0], Op.READ, pattern=pattern[1]))
    assert decisions(authorizer, "bob", *((Op.READ, TOPIC, name) for name in names)) == expected


def test_a_literal_deny_goes_before_a_prefixed_allow() -> None:
    authorizer = authorizer_of(acl("a", Op.READ, pattern=PREFIXED), acl("ab", Op.READ, DENY))
    assert decisions(authorizer, "bob", (Op.READ, TOPIC, "ab"), (Op.READ, TOPIC, "abc")) == "da"


# -- hosts


@pytest.mark.parametrize(
    ("peer", "expected"),
    [
        ("127.0.0.1", "127.0.0.1"),
        ("::1", "0:0:0:0:0:0:0:1"),
        ("fe80::1%eth0", "fe80:0:0:0:0:0:0:1"),
        ("::ffff:10.1.2.3", "10.1.2.3"),
        ("2001:db8::a", "2001:db8:0:0:0:0:0:a"),
    ],
)
def test_addresses_are_written_as_java_writes_them(peer: str, expected: str) -> None:
    assert host_address(peer) == expected


@pytest.mark.parametrize(
    ("rule", "host", "expected"),
    [
        ("10.0.0.0/8", "10.200.3.4", True),
        ("10.0.0.0/8", "11.0.0.1", False),
        ("10.1.1.1/32", "10.1.1.1", True),
        ("2001:db8::/32", "2001:db8:0:0:0:0:0:a", True),
        ("2001:db8::/32", "10.1.1.1", False),
        ("10.0.0.0/8", "", False),
    ],
)
def test_ranges_of_addresses(rule: str, host: str, expected: bool) -> None:
    assert acl("t", Op.READ, host=rule).applies_to("User:bob", host) is expected


# -- filters


NAMES = [
    acl("foo", Op.READ),
    acl("foo", Op.READ, pattern=PREFIXED),
    acl("f", Op.READ, pattern=PREFIXED),
    acl("*", Op.READ),
    acl("bar", Op.READ),
]


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        (AclFilter(), range(5)),
        (AclFilter(pattern_type=LITERAL), (0, 3, 4)),
        (AclFilter(name="foo"), (0, 1)),
        (AclFilter(name="foo", pattern_type=LITERAL), (0,)),
        (AclFilter(name="foo", pattern_type=PREFIXED), (1,)),
        (AclFilter(name="foo", pattern_type=PatternType.MATCH), (0, 1, 2, 3)),
        (AclFilter(name="fox", pattern_type=PatternType.MATCH), (2, 3)),
        (AclFilter(pattern_type=PatternType.MATCH), range(5)),
        (AclFilter(name="*"), (3,)),
        (AclFilter(resource_type=GROUP), ()),
        (AclFilter(principal="User:alice"), ()),
        (AclFilter(host="10.1.1.1"), ()),
        (AclFilter(operation=Op.DESCRIBE), ()),
        (AclFilter(operation=Op.READ, permission_type=ALLOW, host="*", principal="User:bob"), range(5)),
        (AclFilter(permission_type=DENY), ()),
    ],
)
def test_filters(wanted: AclFilter, expected: range | tuple[int, ...]) -> None:
    assert [at for at, one in enumerate(NAMES) if wanted.matches(one)] == list(expected)


@pytest.mark.parametrize(
    "wanted",
    [
        AclFilter(resource_type=ResourceType.UNKNOWN),
        AclFilter(pattern_type=PatternType.UNKNOWN),
        AclFilter(operation=Op.UNKNOWN),
        AclFilter(permission_type=AclPermissionType.UNKNOWN),
    ],
)
def test_a_filter_of_an_unknown_number_is_refused(wanted: AclFilter) -> None:
    with pytest.raises(KafkaError):
        wanted.check()
    AclFilter().check()


def test_numbers_that_are_not_known_are_unknown() -> None:
    assert AclOperation(99) is AclOperation.UNKNOWN
    assert ResourceType(-1) is ResourceType.UNKNOWN


# -- what cannot be an ACL


GOOD = acl("t", Op.READ)
BAD = {
    "another cluster": GOOD._replace(pattern=ResourcePattern(ResourceType.CLUSTER, "mine")),
    "no name": GOOD._replace(pattern=ResourcePattern(TOPIC, "")),
    "no prefix": GOOD._replace(pattern=ResourcePattern(TOPIC, "", PREFIXED)),
    "any type": GOOD._replace(pattern=ResourcePattern(ResourceType.ANY, "t")),
    "unknown type": GOOD._replace(pattern=ResourcePattern(ResourceType.UNKNOWN, "t")),
    "any pattern": GOOD._replace(pattern=ResourcePattern(TOPIC, "t", PatternType.ANY)),
    "match": GOOD._replace(pattern=ResourcePattern(TOPIC, "t", PatternType.MATCH)),
    "any operation": GOOD._replace(operation=Op.ANY),
    "unknown operation": GOOD._replace(operation=Op.UNKNOWN),
    "any permission": GOOD._replace(permission_type=AclPermissionType.ANY),
    "no principal type": GOOD._replace(principal="bob"),
    "no host": GOOD._replace(host=""),
    "no range": GOOD._replace(host="10.0.0.0/99"),
}


@pytest.mark.parametrize("case", BAD)
def test_what_cannot_be_an_acl_is_refused(case: str) -> None:
    with pytest.raises(KafkaError):
        check_new(BAD[case])


def test_what_can_be_an_acl_is_not() -> None:
    check_new(GOOD)
    check_new(GOOD._replace(pattern=ResourcePattern(ResourceType.CLUSTER, "kafka-cluster"), host="10.0.0.0/8"))
