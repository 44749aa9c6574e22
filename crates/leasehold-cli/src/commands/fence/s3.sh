#!/bin/sh
# fenced.sh: an object in S3 or the like that refuses a holder who comes too late.
#
#   leasehold run report -- sh -c '
#     sh fenced.sh URL >old && make-report old >new && sh fenced.sh URL new'
#
# With URL alone: claims the object and prints its content. With a FILE: replaces the content.
# The object's first line is `fence FENCING-TOKEN SERIAL`; a service without If-Match cannot do it.
#
# Environment: LEASEHOLD_FENCING_TOKEN; AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_REGION and
# AWS_SESSION_TOKEN where the service asks for them. Exit status: 0 done, 1 too late, 2 error.
set -eu
url=$1 file=${2-} shown=$LEASEHOLD_FENCING_TOKEN
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# The secret goes in by standard input: arguments can be read by everyone on the machine.
s3() {
  {
    [ -z "${AWS_ACCESS_KEY_ID-}" ] || printf 'user = "%s:%s"\naws-sigv4 = "aws:amz:%s:s3"\n' \
      "$AWS_ACCESS_KEY_ID" "$AWS_SECRET_ACCESS_KEY" "${AWS_REGION-us-east-1}"
    [ -z "${AWS_SESSION_TOKEN-}" ] || printf 'header = "x-amz-security-token: %s"\n' \
      "$AWS_SESSION_TOKEN"
  } | curl -sS --max-time 60 -K - -w '%{http_code}' "$@" "$url"
}

while :; do
  status=$(s3 -D "$work/head" -o "$work/body") || exit 2
  case $status in
    404) seen=0 serial=0 condition='If-None-Match: *'; : >"$work/content" ;;
    200)
      read -r mark seen serial <"$work/body" || mark=
      if [ "$mark" != fence ]; then
        echo "$url: its first line is not: fence FENCING-TOKEN SERIAL" >&2
        exit 2
      fi
      condition="If-Match: $(tr -d '\r' <"$work/head" | sed -n 's/^[Ee][Tt]ag: *//p')"
      tail -n +2 "$work/body" >"$work/content" ;;
    *) echo "$url: answer $status" >&2; exit 2 ;;
  esac
  if [ "$seen" -gt "$shown" ]; then
    echo "$url has been claimed with fencing token $seen, and $shown is older" >&2
    exit 1
  fi
  if [ -n "$file" ] || [ "$seen" -lt "$shown" ]; then
    { echo "fence $shown $((serial + 1))"; cat "${file:-$work/content}"; } >"$work/next"
    status=$(s3 -o /dev/null -T "$work/next" -H "$condition") || exit 2
    case $status in
      2??) ;;
      404 | 409 | 412) continue ;; # another was quicker: look again
      *) echo "$url: answer $status" >&2; exit 2 ;;
    esac
  fi
  [ -n "$file" ] || cat "$work/content"
  exit 0
done
