#!/usr/bin/env bash
# Fetches the jars of scripts/jars/NAME by Maven, checks them, and prints the folder that holds them. Does nothing when it is there.
#
#   scripts/setup-jars.sh hdfs      a NameNode and a DataNode
#   scripts/setup-jars.sh kafka     a Kafka broker
#   scripts/setup-jars.sh sources   Spark's Avro, and a database with its JDBC driver
#   scripts/setup-jars.sh s3a       what Spark itself needs for s3a://
#   scripts/setup-jars.sh delta     Delta Lake for Spark
#   scripts/setup-jars.sh iceberg   Iceberg for Spark 4.1
#   scripts/setup-jars.sh hive      Hive's metastore
#   XDG_CACHE_HOME                  they lie in airflow-samza/jars below this folder, or below ~/.cache
#
# Versions are in pom.xml, checksums in SHA256SUMS. Maven itself fetches, so its settings (mirrors, proxy, offline) hold as everywhere else.
set -euo pipefail
cd "$(dirname "$0")/jars/$1"

PLUGIN=org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies

say() { printf '%s\n' "$*" >&2; }

fail() {
    say "$1"
    say "  Hint: $2"
    exit 1
}

cache=${XDG_CACHE_HOME:-$HOME/.cache}/airflow-samza/jars
folder=$cache/$1-$(cat pom.xml SHA256SUMS | cksum | cut -d ' ' -f 1)
if [ -d "$folder" ]; then
    echo "$folder"
    exit 0
fi

if ! command -v mvn >/dev/null && [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    say "There is no Maven; installing one with apt-get."
    apt-get update -qq
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends maven >/dev/null
fi
command -v mvn >/dev/null || fail "There is no Maven (mvn) on the PATH, which fetches the jars." \
    "install one (Debian, Ubuntu: apt-get install maven; macOS: brew install maven)."

mkdir -p "$cache"
new=$(mktemp -d "$cache/.new-XXXXXX")
trap 'rm -rf "$new"' EXIT
chmod 755 "$new"
say "Fetching the jars of scripts/jars/$1 by Maven (half a minute the first time)."
mvn --batch-mode --quiet --strict-checksums -f pom.xml "$PLUGIN" -DincludeScope=runtime -DoutputDirectory="$new" >&2 ||
    fail "Maven could not fetch the jars of scripts/jars/$1." "its own message is above; does mvn work here for other projects?"
if [ "${WRITE_CHECKSUMS:-}" = 1 ]; then # when versions change: then look at the difference
    (cd "$new" && sha256sum -- *) >SHA256SUMS
    folder=$cache/$1-$(cat pom.xml SHA256SUMS | cksum | cut -d ' ' -f 1)
fi
sums=$PWD/SHA256SUMS
(cd "$new" && ls | diff - <(cut -c 67- "$sums") >&2 && sha256sum --quiet --check --strict "$sums" >&2) ||
    fail "The jars of scripts/jars/$1 are not those that SHA256SUMS lists." "delete them from Maven's repository and try again; never use them."
for archive in "$new"/*.tar.gz; do # a distribution, which has its own folders
    [ ! -e "$archive" ] || { tar -xzf "$archive" -C "$new" --strip-components=1 --no-same-owner && rm "$archive"; }
done
mv -T "$new" "$folder" 2>/dev/null || [ -d "$folder" ] # another process was quicker
echo "$folder"
