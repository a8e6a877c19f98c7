/** Renders a sandbox as the arguments of bubblewrap (bwrap), and as a script for `unshare` where bubblewrap is not installed. Pure. */
import type { Mount } from './mounts.js'

export interface Frame {
  readonly mounts: readonly Mount[]
  readonly cwd: string
  /** The folder of new, empty files, for /tmp. */
  readonly temporary: string
  /**
   * As root in a folder of another account: capabilities over files stay, but only over those that the mounts show. Otherwise the program has no
   * capabilities and cannot make user namespaces.
   */
  readonly keepsFileRights: boolean
}

const fileRights = ['CAP_CHOWN', 'CAP_DAC_OVERRIDE', 'CAP_FOWNER', 'CAP_FSETID']

export function bubblewrap(program: string, { mounts, cwd, temporary, keepsFileRights }: Frame): readonly string[] {
  return [
    program,
    ...[
      '--unshare-pid',
      '--unshare-net',
      '--unshare-ipc',
      '--unshare-uts',
      '--unshare-cgroup-try',
      '--cap-drop',
      'ALL',
    ],
    ...(keepsFileRights ? fileRights.flatMap((name) => ['--cap-add', name]) : ['--unshare-user', '--disable-userns']),
    ...['--proc', '/proc', '--dev', '/dev', '--bind', temporary, '/tmp'],
    ...mounts.flatMap((mount) => {
      if (mount.kind === 'link') return ['--symlink', mount.target, mount.to]
      if (mount.kind === 'empty') return ['--tmpfs', mount.to]
      return [mount.kind === 'read' ? '--ro-bind' : '--bind', mount.from, mount.to]
    }),
    ...['--remount-ro', '/', '--chdir', cwd, '--'],
  ]
}
