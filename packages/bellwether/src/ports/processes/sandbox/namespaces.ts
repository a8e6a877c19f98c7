/**
 * Renders a sandbox as a shell script for `unshare` (util-linux), where bubblewrap is not installed: the same mounts in namespaces of its own. Pure.
 * A shell stays process 1 and collects orphans; the program itself has no capabilities and the account's own id.
 */
import type { Frame } from './bubblewrap.js'
import type { Mount } from './mounts.js'

export interface Caller {
  /** Of this process: the script runs programs of the machine before the root changes. The program gets its own again. */
  readonly path: string
  readonly uid: number
  readonly gid: number
}

const quote = (text: string) => `'${text.replaceAll("'", String.raw`'\''`)}'`

// Until the root changes, an absolute link in the workspace or the home folder would lead a mount, or a new file, out of the new root.
// Parts of the machine's own mounts keep their flags, which a user namespace may not remove.
const functions = (path: string) => `set -e
asked=$PATH
PATH=${quote(`${path}:/usr/sbin:/sbin`)}
inside() { case $(realpath -m -- "$1") in "$root"/*) ;; *) echo "sandbox: $1 leads out of the sandbox" >&2; exit 126 ;; esac; }
at() { inside "$2"; if [ -d "$1" ]; then mkdir -p "$2"; else mkdir -p "$(dirname "$2")"; [ -e "$2" ] || : > "$2"; fi; }
show() { at "$1" "$root$2"; mount --rbind "$1" "$root$2"; }
freeze() {
  grep -F " $(echo "$1" | sed 's/ /\\\\040/g')" /proc/self/mountinfo | while read -r _ _ _ _ place flags _; do
    place=$(printf '%b' "$place")
    case $place in "$1" | "$1"/*) mount -o "remount,bind,ro,\${flags#r?,}" "$place" ;; esac
  done
}
`

// The program's own user namespace is the last one. Root's limit is that of the machine.
const oneMore = 'echo 1 2> /dev/null > "$root/proc/sys/user/max_user_namespaces" || true'

function rendered(mount: Mount): string {
  const to = quote(mount.to)
  if (mount.kind === 'link') return `ln -s ${quote(mount.target)} "$root"${to}`
  if (mount.kind === 'empty')
    return `inside "$root"${to}; mkdir -p "$root"${to}; mount -t tmpfs -o mode=755 tmpfs "$root"${to}`
  const shown = `show ${quote(mount.from)} ${to}`
  return mount.kind === 'read' ? `${shown}; freeze "$root"${to}` : shown
}

export function namespaces(
  program: string,
  { mounts, cwd, temporary, keepsFileRights }: Frame,
  { uid, gid, path }: Caller,
): readonly string[] {
  const isRoot = uid === 0
  const drop = [
    'setpriv',
    '--no-new-privs',
    '--inh-caps=-all',
    `--bounding-set=-all${keepsFileRights ? ',+chown,+dac_override,+fowner,+fsetid' : ''}`,
  ]
  const own = isRoot ? drop : ['unshare', '--user', `--map-user=${uid}`, `--map-group=${gid}`, ...drop]
  const script = `${functions(path)}root=$(realpath -- "$1"); shift
mount --make-rprivate /
mount -t tmpfs -o mode=755 tmpfs "$root"
mkdir "$root/.old" "$root/proc" "$root/dev" "$root/dev/shm" "$root/dev/pts"
mount -t proc proc "$root/proc"
show ${quote(temporary)} /tmp
${mounts.map(rendered).join('\n')}
${isRoot ? '' : oneMore}
for one in null zero full random urandom tty; do show /dev/$one /dev/$one; done
mount -t devpts -o newinstance,ptmxmode=0666 devpts "$root/dev/pts"
ln -s pts/ptmx "$root/dev/ptmx"
for one in fd:fd stdin:fd/0 stdout:fd/1 stderr:fd/2; do ln -s "/proc/self/\${one#*:}" "$root/dev/\${one%:*}"; done
ip link set lo up 2> /dev/null || true
cd "$root"
pivot_root . .old
cd /
umount -l /.old
rmdir /.old
mount -o remount,bind,ro /
cd ${quote(cwd)}
set +e
${own.join(' ')} -- /usr/bin/env "PATH=$asked" "$@"
exit $?`
  return [
    program,
    ...(isRoot ? [] : ['--user', '--map-root-user']),
    ...['--mount', '--pid', '--net', '--ipc', '--uts', '--fork', '--', '/bin/sh', '-c', script, 'bellwether-sandbox'],
  ]
}
