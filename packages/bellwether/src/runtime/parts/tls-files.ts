/** Reads the files that settings name for TLS and sign-in. A file that cannot be read is reported with the setting that names it. */
import { readFileSync } from 'node:fs'
import { resolve } from 'node:path'
import { errorMessage } from '@bellwether/base'
import { InvalidInput } from '@bellwether/protocol'
import type { NatsTls } from '../../ports/connections/nats.js'
import type { Settings } from '../../settings/schema.js'

/** `setting`: for the hint. */
export function readSettingFile(path: string, setting: string): string {
  try {
    return readFileSync(path, 'utf8')
  } catch (error) {
    throw new InvalidInput(`Cannot read ${path}: ${errorMessage(error)}`, {
      code: 'cannot_read_file',
      cause: error,
      hint: `correct ${setting}; this account must be able to read the file`,
    })
  }
}

/** Undefined if no file is set. Paths are relative to the working folder. */
export function natsTls({ tls_ca: ca, tls_certificate: cert, tls_key: key }: Settings['nats']): NatsTls | undefined {
  if ((cert === undefined) !== (key === undefined))
    throw new InvalidInput('"nats.tls_certificate" and "nats.tls_key" must be set together', {
      code: 'invalid_settings',
      hint: 'set both, or remove both',
    })
  if (ca === undefined && cert === undefined) return undefined
  const read = (file: string | undefined, name: string) =>
    file === undefined ? undefined : readSettingFile(resolve(file), `nats.${name}`)
  return { ca: read(ca, 'tls_ca'), cert: read(cert, 'tls_certificate'), key: read(key, 'tls_key') }
}
