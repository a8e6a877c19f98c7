/**
 * Runs commands as another account, so that they reach neither the files nor the memory of Bellwether. Needs root and `setpriv`
 * (util-linux). The account's home folder and name replace those of root in the environment.
 */
import { execFileSync } from 'node:child_process'
import { errorMessage } from '@bellwether/base'
import { InvalidInput } from '@bellwether/protocol'
import type { Account } from './scratch.js'
import { ownProgram } from '../search-path.js'

export interface RunAs {
  /** Goes before the command. */
  readonly prefix: readonly string[]
  readonly env: Readonly<Record<string, string>>
  readonly account: Account
}

const lookupMs = 10_000

/** Throws if the account does not exist or this process may not change to it. */
export function runAs(account: string): RunAs {
  if (!/^[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}$/.test(account)) throw refused(account, 'it is not a name of an account')
  if (process.geteuid?.() !== 0) throw refused(account, 'only root can start programs as another account')
  const read = (program: string, ...args: string[]) => {
    try {
      return execFileSync(program, args, {
        encoding: 'utf8',
        timeout: lookupMs,
        stdio: ['ignore', 'pipe', 'ignore'],
      }).trim()
    } catch (error) {
      throw refused(account, `${program} ${args.join(' ')} failed: ${errorMessage(error).split('\n')[0]}`)
    }
  }
  read('setpriv', '--version')
  const [name = '', , uid = '', gid = '', , home = '/'] = read('getent', 'passwd', account).split(':')
  if (uid === '0') throw refused(account, 'it is root')
  return {
    prefix: [ownProgram('setpriv'), `--reuid=${uid}`, `--regid=${gid}`, '--init-groups', '--no-new-privs', '--'],
    env: { HOME: home, USER: name, LOGNAME: name },
    account: { uid: Number(uid), gid: Number(gid) },
  }
}

function refused(account: string, reason: string): InvalidInput {
  return new InvalidInput(`Cannot run commands as ${JSON.stringify(account)} (worker.run_as): ${reason}`, {
    code: 'invalid_run_as',
    hint: 'create the account, run Bellwether as root with setpriv and getent installed, or remove worker.run_as',
  })
}
