/** Where the browser starts. */
import { start } from './app.js'
import { startTheme } from './theme.js'

startTheme()
start(document.getElementById('root')!)
