"""ACLs in few words, and sets of them by chance, for tests of access rules."""

from __future__ import annotations

from hypothesis import strategies as st

from equipoise.security.acls import (
    Acl,
    AclOperation,
    AclPermissionType,
    PatternType,
    ResourcePattern,
    ResourceType,
    StandardAuthorizer,
)

TOPIC, GROUP = ResourceType.TOPIC, ResourceType.GROUP
LITERAL, PREFIXED = PatternType.LITERAL, PatternType.PREFIXED
ALLOW, DENY = AclPermissionType.ALLOW, AclPermissionType.DENY
HERE = "127.0.0.1"


def acl(
    name: str,
    operation: AclOperation,
    permission: AclPermissionType = ALLOW,
    pattern: PatternType = LITERAL,
    *,
    kind: ResourceType = TOPIC,
    principal: str = "User:bob",
    host: str = "*",
) -> Acl:
    return Acl(ResourcePattern(kind, name, pattern), principal, host, operation, permission)


def authorizer_of(*acls: Acl, everyone: bool = False) -> StandardAuthorizer:
    authorizer = StandardAuthorizer(["User:superman"], allow_everyone_if_no_acl_found=everyone)
    for one in acls:
        authorizer.add(one)
    return authorizer


# Short names of few letters, the star among them: they meet often.
names = st.text("ab*", min_size=1, max_size=3)
types = st.sampled_from([TOPIC, GROUP])
operations = st.sampled_from([AclOperation(code) for code in range(3, 12)])
principals = st.sampled_from(["User:a", "User:b", "User:superman"])
hosts = st.sampled_from([HERE, "10.1.1.1"])
acls = st.builds(
    acl,
    names,
    st.sampled_from([AclOperation(code) for code in range(2, 12)]),
    st.sampled_from([ALLOW, ALLOW, DENY]),
    st.sampled_from([LITERAL, PREFIXED]),
    kind=types,
    principal=st.sampled_from(["User:a", "User:b", "User:*", "Group:a"]),
    host=st.sampled_from(["*", HERE, "10.1.1.1"]),
)
questions = st.tuples(principals, hosts, operations, types, names)
