"""Credentials of S3 that botocore finds: those of a profile, or of an assumed role, renewed before they expire."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from importlib.util import find_spec
from typing import Any

from airflow_samza.application.rejections import did_you_mean
from airflow_samza.errors import ConfigError, RuntimeMissing

_LIFETIME = timedelta(minutes=15)
"""The time after which botocore is asked again; it renews what expires within fifteen minutes."""


@dataclass(frozen=True)
class AwsIdentity:
    """A profile of the files of ``~/.aws``, or a role that it, a key or the environment may assume."""

    profile: str = ""
    role_arn: str = ""
    external_id: str = field(default="", repr=False)
    role_session_name: str = ""
    region: str = ""
    sts_endpoint: str = ""
    key: tuple[str, str, str] | None = field(default=None, repr=False)
    """An access key, its secret, and a session token or \"\"."""

    def __call__(self) -> Mapping[str, object]:
        """Return credentials, and when they are to be asked for again."""
        from botocore.exceptions import BotoCoreError, ClientError, ConnectionError as NoConnection, HTTPClientError

        try:
            return self._credentials()
        except (HTTPClientError, NoConnection) as error:
            raise _Unavailable(503, f"{self.name} cannot be asked for now: {error}") from None
        except (BotoCoreError, ClientError) as error:
            raise _Unavailable(401, f"{self.name} gives no credentials: {error}") from None

    def _credentials(self) -> Mapping[str, object]:
        import botocore.session

        session: Any = botocore.session.Session(profile=self.profile or None)
        if self.key is not None:
            session.set_credentials(self.key[0], self.key[1], self.key[2] or None)
        if self.role_arn:
            return self._assumed(session)
        credentials = session.get_credentials()
        if credentials is None:
            raise _Unavailable(401, f"{self.name} holds no credentials")
        held = credentials.get_frozen_credentials()
        return {
            "access_key_id": held.access_key,
            "secret_access_key": held.secret_key,
            "token": held.token,
            "expires_at": datetime.now(timezone.utc) + _LIFETIME,
        }

    def _assumed(self, session: Any) -> Mapping[str, object]:
        region = self.region or session.get_config_variable("region") or "us-east-1"
        client = session.create_client("sts", region_name=region, endpoint_url=self.sts_endpoint or None)
        request = {"RoleArn": self.role_arn, "RoleSessionName": self.role_session_name or "airflow-samza"}
        if self.external_id:
            request["ExternalId"] = self.external_id
        credentials = client.assume_role(**request)["Credentials"]
        return {
            "access_key_id": credentials["AccessKeyId"],
            "secret_access_key": credentials["SecretAccessKey"],
            "token": credentials["SessionToken"],
            "expires_at": credentials["Expiration"].astimezone(timezone.utc),  # obstore takes no other zone's object
        }

    @property
    def name(self) -> str:
        """The identity as messages show it."""
        return f"the role {self.role_arn}" if self.role_arn else f"the profile {self.profile!r}"


class _Unavailable(Exception):
    """An error in the form of a store's answer, which is all that obstore passes on of it."""

    def __init__(self, status: int, why: str) -> None:
        text = why.replace("<", " ").replace("\n", " ")
        super().__init__(f"status code: {status} <Code>NoIdentity</Code><Message>{text}</Message>")


def checked_identity(identity: AwsIdentity) -> AwsIdentity:
    """Return an identity that can be asked for; reject it where botocore or the profile is missing."""
    if find_spec("botocore") is None:
        raise RuntimeMissing(
            f"Credentials of {identity.name} need the package botocore, which is not installed.",
            hint="pip install botocore, on every host of the run.",
            identity=identity.name,
        )
    if identity.profile:
        import botocore.session

        profiles = botocore.session.Session().available_profiles
        if identity.profile not in profiles:
            raise ConfigError(
                f"There is no profile {identity.profile!r} in the AWS configuration files of this host.",
                hint=f"{did_you_mean(identity.profile, profiles)}The profiles are {', '.join(profiles)}."
                if profiles
                else "Write it to ~/.aws/credentials, or leave it out.",
                key="profile",
                value=identity.profile,
            )
    return identity
