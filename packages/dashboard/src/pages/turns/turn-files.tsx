/** The files of a turn: those that its deliverable names, and those that changed while it ran. */
import { Link } from '@tanstack/react-router'
import type { TurnFile } from '../../api/types.js'
import { bytes, plural } from '../../model/text.js'
import { markMeanings } from '../workspace/marks.js'
import { Line } from '../../parts/untrusted-text.js'
import { Chip } from '../../parts/status.js'

const shownMax = 200

interface TurnFilesProps {
  readonly project: string
  readonly files: readonly TurnFile[]
  readonly isCut: boolean
}

export function TurnFiles({ project, files, isCut }: TurnFilesProps) {
  const claimed = files.filter(({ how }) => how === 'claimed')
  const changed = files.filter(({ how }) => how !== 'claimed')
  if (files.length === 0) return <p className="px-3 py-2 text-ink-3">No files known</p>
  return (
    <div className="max-h-72 overflow-auto px-3 py-2" tabIndex={0} role="group" aria-label="Files of this turn">
      <List project={project} title="Named in the deliverable" files={claimed} />
      <List project={project} title="Changed while it ran" files={changed} />
      {isCut && <p className="label pt-1">More exist.</p>}
    </div>
  )
}

function List({ project, title, files }: Omit<TurnFilesProps, 'isCut'> & { readonly title: string }) {
  if (files.length === 0) return null
  return (
    <>
      <h3 className="label not-first:mt-2">{title}</h3>
      <ul>
        {files.slice(0, shownMax).map((file, at) => (
          <li key={at} className="flex items-center gap-2 text-sm">
            <span className="min-w-0 flex-1 font-mono text-xs">
              <PathOf project={project} file={file} />
            </span>
            {file.how === 'deleted' && <Chip tone="rest">deleted</Chip>}
            {file.how === 'claimed' && file.found === false && (
              <Chip tone="bad" title="The deliverable names this file, but it is not on disk.">
                missing
              </Chip>
            )}
            {file.certainty === 'several_turns' && (
              <Chip tone="wait" title="Other turns ran when this file changed. One of them may have changed it.">
                {plural(file.other_turns.length, 'other turn', 'other turns')}
              </Chip>
            )}
            {file.integrity_suspect === true && (
              <Chip tone="wait" title={markMeanings.suspect}>
                suspect
              </Chip>
            )}
            <span className="text-xs text-ink-3">{file.size === null ? '' : bytes(file.size)}</span>
          </li>
        ))}
      </ul>
      {files.length > shownMax && <p className="label">and {plural(files.length - shownMax, 'more', 'more')}</p>}
    </>
  )
}

/** A file that a view shows leads to the workspace. */
function PathOf({ project, file: { path, view, source_id: source, found } }: PathOfProps) {
  if (view === null || found !== true) return <Line text={path} />
  const search = { view, q: path.slice(path.lastIndexOf('/') + 1), ...(source === null ? {} : { source }) }
  return (
    <Link to="/p/$project/workspace" params={{ project }} search={search} className="link">
      <Line text={path} />
    </Link>
  )
}

interface PathOfProps {
  readonly project: string
  readonly file: TurnFile
}
