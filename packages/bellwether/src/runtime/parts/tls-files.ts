/**
 * Reads the files that settings name for TLS and sign-in. A file that cannot be read, or with which no client could connect safely, is
 * reported with the setting that names it.
 */
import { createPrivateKey, X509Certificate } from 'node:crypto'
import { readFileSync, statSync } from 'node:fs'
import { resolve } from 'node:path'
import { errorMessage, systemClock } from '@bellwether/base'
import { InvalidInput } from '@bellwether/protocol'
import type { NatsTls } from '../../ports/connections/nats.js'
import type { Settings } from '../../settings/schema.js'

// Chains of certificates have some kB.
const fileMaxBytes = 1_048_576

/** `setting`: for the hint. */
export function readSettingFile(path: string, setting: string): string {
  try {
    const entry = statSync(path)
    // Devices never end.
    if (!entry.isFile() || entry.size > fileMaxBytes)
      throw new Error(`it is not a regular file of at most ${fileMaxBytes} bytes`)
    return readFileSync(path, 'utf8')
  } catch (error) {
    throw new InvalidInput(`Cannot read ${path}: ${errorMessage(error)}`, {
      code: 'cannot_read_file',
      cause: error,
      hint: `correct ${setting}; this account must be able to read the file`,
    })
  }
}

/** The certificate and key of the server. Undefined if no file is set. Paths are relative to the folder. */
export function serverTls({ tls_certificate: cert, tls_key: key }: Settings['server'], folder: string) {
  if ((cert === undefined) !== (key === undefined))
    throw new InvalidInput('"server.tls_certificate" and "server.tls_key" must be set together', {
      code: 'invalid_settings',
      hint: 'set both, or remove both to speak plain HTTP',
    })
  if (cert === undefined || key === undefined) return undefined
  const [certPath, keyPath] = [resolve(folder, cert), resolve(folder, key)]
  const files = {
    cert: readSettingFile(certPath, 'server.tls_certificate'),
    key: readSettingFile(keyPath, 'server.tls_key'),
  }
  const certificate = parsed(certPath, 'server.tls_certificate', () => new X509Certificate(files.cert))
  const privateKey = parsed(keyPath, 'server.tls_key', () => createPrivateKey(files.key))
  if (!certificate.checkPrivateKey(privateKey))
    throw refused(certPath, `its key is not the one in ${keyPath}`, 'set server.tls_key to the key of the certificate')
  if (Date.parse(certificate.validTo) < systemClock.wallMs())
    throw refused(
      certPath,
      `it expired on ${certificate.validTo}`,
      'renew the certificate: clients refuse an expired one',
    )
  if ((statSync(keyPath).mode & othersMay) !== 0)
    throw refused(keyPath, 'every account of this machine may read or change this key', `chmod 640 ${keyPath}`)
  return files
}

const othersMay = 0o007
const refused = (path: string, why: string, hint: string) =>
  new InvalidInput(`Cannot speak HTTPS with ${path}: ${why}`, { code: 'invalid_certificate', hint })

function parsed<T>(path: string, setting: string, parse: () => T): T {
  try {
    return parse()
  } catch (error) {
    throw refused(
      path,
      `it is not valid PEM (${errorMessage(error)})`,
      `correct ${setting}; the key must have no password`,
    )
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
